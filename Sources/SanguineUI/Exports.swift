// A view imports one module.
@_exported public import Sanguine
