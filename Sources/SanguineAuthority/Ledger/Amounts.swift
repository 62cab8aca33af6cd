import SanguineModel

/// Checks the amounts and reasons that requests send to the ledger.
enum Amounts {
    /// Throws unless the amount is in range: from `least` to ``WireLimits/amount``.
    static func check(_ amount: Int64, atLeast least: Int64 = 1) throws(Problem) {
        guard (least...WireLimits.amount).contains(amount) else {
            throw Problem(
                .invalidContent,
                "Set 'amount' to a whole number from \(least) to \(WireLimits.amount)."
            )
        }
    }

    /// Throws unless the reason is plain text of 1 to 200 characters.
    static func check(reason: String) throws(Problem) {
        guard reason.isPlainText(of: WireLimits.reasonCharacters) else {
            let range = WireLimits.reasonCharacters
            throw Problem(
                .invalidContent,
                "Set 'reason' to \(range.lowerBound) to \(range.upperBound) printable characters."
            )
        }
    }

    /// Throws unless a grant may expire at the moment.
    static func checkExpiry(
        _ moment: Timestamp,
        of balance: BalanceRow,
        now: Timestamp
    ) throws(Problem) {
        guard moment > now, moment <= now + .seconds(longestExpirySeconds) else {
            throw Problem(
                .invalidContent,
                "Set 'expiresAt' to a time in the future, at most ten years away."
            )
        }
        guard balance.grants.hasRoom(for: moment) else {
            throw Problem(
                .invalidContent,
                """
                Set 'expiresAt' to a time at which another grant expires: an account has at most \
                \(ExpiringGrants.limit) different ones.
                """
            )
        }
    }

    /// The longest time until a grant expires: ten years.
    private static let longestExpirySeconds = 3_653 * 86_400

    /// Throws if a grant raises the balance, including held tokens, above ``WireLimits/amount``.
    ///
    /// Purchases and merges may: their tokens were paid for or granted before.
    static func checkGrant(_ amount: Int64, to balance: BalanceRow) throws(Problem) {
        guard balance.available + balance.held <= WireLimits.amount - amount else {
            throw Problem(
                .invalidContent,
                "Grant less: a balance and its holds are at most \(WireLimits.amount) together."
            )
        }
    }
}
