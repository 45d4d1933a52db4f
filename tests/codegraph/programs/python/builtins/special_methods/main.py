class Bag:
    def __len__(self):
        return 0

    def __str__(self):
        return ""

    def __contains__(self, item):
        return True


bag = Bag()
len(bag)
str(bag)
f"{bag}"
1 in bag
