"""How results are shown: pictures, retrieval strips and HTML pages."""
