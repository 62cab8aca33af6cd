/// The former name of ``CallCancellation``.
@available(*, deprecated, renamed: "CallCancellation")
public typealias CallEnding = CallCancellation
