"""Golden values: answers to a fixed list of users' questions, kept to notice any change of a number or a word."""
