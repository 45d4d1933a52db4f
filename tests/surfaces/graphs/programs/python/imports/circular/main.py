import left

left.swing()
