"""What an assistant may ask, over the Model Context Protocol: four tools, by HTTP or on standard input."""
