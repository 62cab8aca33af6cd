public import Sanguine

/// The strings with which an ``AutomaticQueryViewStyle`` describes a status; English by default.
///
/// ```swift
/// var texts = QueryTexts()
/// texts.retry = String(localized: "Try again")
/// ```
public struct QueryTexts: Sendable {
    /// The title shown without content.
    ///
    /// Default: "Offline", "Sign-In Needed", "Not Available" and the like, by the error's class.
    public var title: @Sendable (QueryStatus) -> String = Self.title
    /// The description of an error, below the title.
    ///
    /// Default: a sentence by the error's class. For an invalid declaration, such as a missing
    /// client, the error's own text, which only developers see.
    public var message: @Sendable (SanguineError) -> String = Self.message
    /// The text of the retry button.
    public var retry = "Try Again"
    /// The note below content that could not be refreshed, from its status and its age, if known.
    ///
    /// Default: "As of 5 minutes ago, offline".
    public var note: @Sendable (QueryStatus, Duration?) -> String = Self.note

    /// Creates the English strings.
    public init() {}

    private static func title(of status: QueryStatus) -> String {
        if status.isOffline { return "Offline" }
        switch status.error?.errorClass {
        case nil: return "Nothing Here Yet"
        case .needsSignIn: return "Sign-In Needed"
        case .gone: return "No Longer Available"
        case .retryable, .waits, .refused, .cancelled, .defect: return "Not Available"
        }
    }

    private static func message(for error: SanguineError) -> String {
        switch error {
        case .invalidDeclaration, .notConfigured: return error.description
        case _ where QueryStatus(.failed, error: error).isOffline:
            return "Check the connection and try again."
        default: break
        }
        return switch error.errorClass {
        case .retryable, .cancelled: "Something went wrong. Try again."
        case .waits: "Too busy at the moment. Try again later."
        case .needsSignIn: "Sign in to see this."
        case .refused: "This cannot be shown."
        case .gone: "This does not exist or was removed."
        case .defect: "Something is wrong with the app or the server."
        }
    }

    private static func note(_ status: QueryStatus, age: Duration?) -> String {
        let reason = status.isOffline ? "offline" : "could not be updated"
        guard let age else { return reason.prefix(1).uppercased() + reason.dropFirst() }
        return "As of \(text(of: age)), \(reason)"
    }

    /// Returns the age in its largest unit.
    private static func text(of age: Duration) -> String {
        let minutes = age.components.seconds / 60
        let units: [(minutes: Int64, name: String)] = [
            (24 * 60, "day"), (60, "hour"), (1, "minute"),
        ]
        guard let unit = units.first(where: { minutes >= $0.minutes }) else { return "just now" }
        let count = minutes / unit.minutes
        return "\(count) \(unit.name)\(count == 1 ? "" : "s") ago"
    }
}

extension QueryTexts {
    private static let title: @Sendable (QueryStatus) -> String = { title(of: $0) }
    private static let message: @Sendable (SanguineError) -> String = { message(for: $0) }
    private static let note: @Sendable (QueryStatus, Duration?) -> String = { note($0, age: $1) }
}
