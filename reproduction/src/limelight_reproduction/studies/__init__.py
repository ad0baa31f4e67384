"""Studies that support a statement of the article or a choice of the library, with their code."""
