public import SanguineModel

// Created once, so that a lookup of `.balance` does not build its key each time.
private enum BuiltIn {
    static let balance = ValueQuery<Balance>(
        sourced: "$balance",
        policy: .fresh(for: BalanceLimits.freshness).stored(.onDisk)
            .timeout(ClientLimits.balanceTimeout)
            .retry(.never)  // The source retries within its own time.
            .refetched(on: [.foreground, .networkBack]),
        place: DeclarationPlace(#fileID, #line)
    )

    static let quotas = ValueQuery<[Quota]>(
        sourced: "$quotas",
        policy: .fresh(for: .minutes(1)).stored(.onDisk),
        place: DeclarationPlace(#fileID, #line)
    )

    static let account = ValueQuery<Account>(
        "$account",
        policy: .fresh(for: .hours(1)).stored(.onDisk)
    ) { request in
        try await request.toServer().get("/v1/account")
    }
}

extension ValueQuery where Value == Balance {
    /// The amount that the user may spend: the server's balance with the calls in flight applied.
    ///
    /// Fresh for 2 minutes. A fetch with all its attempts may take 8 seconds. It is fetched again
    /// when the app returns after a while or the network returns and, while it is observed, at the
    /// interval of ``SanguineClient/Configuration/balancePolling``.
    public static var balance: Self { BuiltIn.balance }

    /// The balance, fresh for as long as it usually stays the same: the same value as ``balance``,
    /// fetched less often for users who seldom spend.
    ///
    /// See <doc:Adaptive-Freshness>.
    ///
    /// - Parameters:
    ///   - bounds: The shortest and the longest time for which it is fresh.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    /// - Returns: The query.
    public static func balance(
        adaptingWithin bounds: ClosedRange<Duration>,
        fileID: StaticString = #fileID,
        line: UInt = #line
    ) -> Self {
        Self(
            sourced: "$balance",
            policy: BuiltIn.balance.policy.adaptive(within: bounds),
            place: DeclarationPlace(fileID, line)
        )
    }
}

extension ValueQuery where Value == [Quota] {
    /// The daily quotas and their remaining amounts: the server's values with the calls in flight
    /// applied.
    ///
    /// Fresh for a minute, and stale when a quota's day ends. From that moment, even without a
    /// network, the new day's quota is unused until the server reports otherwise.
    public static var quotas: Self { BuiltIn.quotas }
}

extension ValueQuery where Value == Account {
    /// The user's account at the server.
    ///
    /// Fresh for an hour.
    public static var account: Self { BuiltIn.account }
}
