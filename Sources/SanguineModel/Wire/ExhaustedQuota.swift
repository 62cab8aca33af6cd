extension Problem {
    /// The refusal of a use beyond the rest of a quota, the same from the server and, before it is
    /// asked, from the client.
    ///
    /// - Parameters:
    ///   - quota: The quota, as it is now.
    ///   - now: The current time, from which `retryAfter` counts.
    /// - Returns: `quota_exhausted`, with the time of the reset and the plans that lift the quota.
    package static func exhausted(_ quota: Quota, at now: Timestamp) -> Problem {
        let lifts = quota.lifts ?? []
        var problem = Problem(
            .quotaExhausted,
            lifts.isEmpty
                ? "Wait until 'resetsAt'."
                : "Wait until 'resetsAt', or change to a plan that 'lifts' lists.",
            retryAfter: max(1, (quota.resetsAt - now).secondsRoundedUp)
        )
        problem.resetsAt = quota.resetsAt
        problem.lifts = lifts
        return problem
    }
}
