/// The former name of ``RemoteMutation``.
@available(*, deprecated, renamed: "RemoteMutation")
public typealias RequestMutation = RemoteMutation

/// The former name of ``MutationContext``.
@available(*, deprecated, renamed: "MutationContext")
public typealias MutationRequest = MutationContext
