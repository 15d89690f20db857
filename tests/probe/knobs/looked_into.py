"""A class whose objects are looked into."""


class Bare:
    def __init__(self):
        self.total = 0.0

    def update(self, value):
        self.total += value

    def all(self):
        return dict(self.__dict__)
