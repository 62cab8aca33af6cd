/// The limits of attempts to sign in and of codes that are sent.
enum EmailLimits {
    /// The number of failed attempts to sign in with an e-mail address, in ``failureWindow``.
    static let failuresPerEmail = 5
    /// The number of failed attempts from a network address, in ``failureWindow``.
    static let failuresPerAddress = 10
    /// The number of times that an attempt waits for the outcome of others before it is refused.
    static let turns = 256
    /// The window for failed attempts.
    static let failureWindow = Duration.seconds(60)

    /// The number of codes that an account can request, in ``codeWindow``.
    static let codesPerAccount = 5
    /// The number of codes that are sent to an e-mail address, in ``codeWindow``.
    static let codesPerEmail = 5
    /// The window for codes, also for ``AuthoritySettings/codesPerHour``.
    static let codeWindow = Duration.seconds(3_600)
}
