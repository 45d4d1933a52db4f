import os
import os.path as p
from collections import OrderedDict
from xml.etree import ElementTree as ET

os.path.join("a", "b")
p.exists("a")
os.getcwd()
OrderedDict()
ET.Element("a")
