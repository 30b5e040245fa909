"""What results are shown by, with numpy alone: pictures with words in them, retrieval strips, pages of HTML."""
