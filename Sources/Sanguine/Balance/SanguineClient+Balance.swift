extension SanguineClient {
    /// The last 10 different balances from the server, the newest last, with their times.
    ///
    /// They survive a restart, but not a sign-out.
    public var balanceHistory: [RecordedBalance] { balance.history }
}
