public import SanguineModel

// Made once: a look-up of `.balance` should not build its key each time.
private enum BuiltIn {
    static let balance = ValueQuery<Balance>(
        sourced: "$balance",
        policy: .fresh(for: BalanceLimits.freshness).stored(.onDisk)
            .timeout(ClientLimits.balanceTimeout)
            .retry(.never)  // The source tries again, within the time that all attempts share.
            .refetched(on: [.foreground, .networkBack])
    )

    static let quotas = ValueQuery<[Quota]>(
        sourced: "$quotas",
        policy: .fresh(for: .minutes(1)).stored(.onDisk)
    )

    static let account = ValueQuery<Account>(
        "$account",
        policy: .fresh(for: .hours(1)).stored(.onDisk)
    ) { request in
        try await request.get("/v1/account")
    }
}

extension ValueQuery where Value == Balance {
    /// What the user may spend: the server's balance and, on top of it, the calls in flight.
    ///
    /// Fresh for 2 minutes; a fetch with all its attempts may take 8 seconds. Asked for again when
    /// the app comes back after a while or the network does, and, if it is observed, as often as
    /// ``SanguineClient/Configuration/balancePolling`` says.
    public static var balance: Self { BuiltIn.balance }

    /// The balance, fresh for as long as it really stays the same: the same value as ``balance``,
    /// asked for less often by who seldom spends.
    ///
    /// - Parameter bounds: How long it is fresh at least and at most. See <doc:Adaptive-Freshness>.
    /// - Returns: The query.
    public static func balance(adaptingWithin bounds: ClosedRange<Duration>) -> Self {
        Self(sourced: "$balance", policy: BuiltIn.balance.policy.adaptive(within: bounds))
    }
}

extension ValueQuery where Value == [Quota] {
    /// The daily allowances and what is left of them: the server's word and, on top of it, what the
    /// calls in flight take.
    ///
    /// Fresh for a minute, and stale when a quota's day is over: from that moment on nothing of the
    /// new day is used, without a network, too, until the server says otherwise.
    public static var quotas: Self { BuiltIn.quotas }
}

extension ValueQuery where Value == Account {
    /// What the server knows of the user.
    ///
    /// Fresh for an hour.
    public static var account: Self { BuiltIn.account }
}
