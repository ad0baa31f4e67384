"""The mathematics: one small module per result, arrays in, arrays out."""
