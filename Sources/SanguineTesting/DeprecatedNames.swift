/// The former name of ``WaitTimeout``.
@available(*, deprecated, renamed: "WaitTimeout")
public typealias VainWait = WaitTimeout
