NAME = "my own probe"
