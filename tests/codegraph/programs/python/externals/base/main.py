import unittest


class Case(unittest.TestCase):
    def test_one(self):
        self.assertEqual(1, self.helper())

    def helper(self):
        return 1
