"""Statements that only the paper needs: Eq. 17 and 19, and the lemmas of its appendix."""
