"""Hidden files of a user, which limelight must leave alone in a folder that it writes to."""

CONTENTS = {".env.old": "secret", ".x.part": "of the user", ".venv.old/bin": "python"}


def write_hidden_files(folder):
    """Write files of a user whose names resemble those of limelight's temporary files."""
    for name, content in CONTENTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)


def assert_hidden_files_are_kept(folder):
    """Assert that every file of `write_hidden_files` is there with its content."""
    assert {name: (folder / name).read_text() for name in CONTENTS} == CONTENTS
