/// The former name of ``RemoteMutation``.
@available(*, deprecated, renamed: "RemoteMutation")
public typealias RequestMutation = RemoteMutation

/// The former name of ``MutationContext``.
@available(*, deprecated, renamed: "MutationContext")
public typealias MutationRequest = MutationContext

extension RecordLimits {
    /// The former name of ``concurrentPushes``.
    @available(*, deprecated, renamed: "concurrentPushes")
    public static var pushFlights: Int { concurrentPushes }

    /// The former name of ``concurrentMutations``.
    @available(*, deprecated, renamed: "concurrentMutations")
    public static var mutationFlights: Int { concurrentMutations }

    /// The former name of ``concurrentUploads``.
    @available(*, deprecated, renamed: "concurrentUploads")
    public static var uploadFlights: Int { concurrentUploads }
}
