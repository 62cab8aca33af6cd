// Views need to import only one module.
@_exported public import Sanguine
