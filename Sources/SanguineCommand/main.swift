import Hummingbird
import ArgumentParser
import Configuration
//import GRDB



import Metrics
print("hi")
