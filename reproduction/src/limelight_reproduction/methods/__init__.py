"""Methods for the paper's classifier that limelight finds by their entry points."""
