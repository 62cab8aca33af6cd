/// The reason why an operation is refused.
///
/// Record mutations throw it, and the app finds it in the tray.
///
/// ```swift
/// guard habit.isActive else { throw Refusal(.invalidContent, "Resume the habit first.") }
/// ```
public struct Refusal: Error, Hashable, Codable, Sendable {
    /// The stable code for programs to act on.
    ///
    /// An app may define its own codes.
    public var code: ProblemCode
    /// The next step, in a sentence without personal data.
    public var detail: String

    /// Creates a refusal.
    public init(_ code: ProblemCode, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    /// The refusal as a problem on the wire.
    ///
    /// A code that is the app's own has the status 422.
    public var problem: Problem { Problem(code, detail) }
}

extension Refusal {
    /// The refusal of an operation on a stored record that cannot be decoded as the type.
    package static func unreadable<R: SyncedRecord>(
        _ type: R.Type,
        _ id: RecordID,
        _ error: any Error
    ) -> Refusal {
        Refusal(
            .invalidContent,
            """
            The record '\(RecordKey(R.collection.name, id))' cannot be read as '\(type)': \
            \(error.memberFault). Update the app, or declare a default or a migration for it.
            """
        )
    }
}

extension Refusal {
    /// The refusal of a change whose result cannot be stored, or whose stored record is not JSON.
    package static func unstorable(_ key: RecordKey, _ error: any Error) -> Refusal {
        guard case .invalidValue(_, let context)? = error as? EncodingError else {
            return Refusal(
                .invalidContent,
                """
                Delete the record '\(key)', or restore it from a copy: its stored value is not a \
                JSON object and cannot be changed.
                """
            )
        }
        let names = context.codingPath.map {
            String(String.UnicodeScalarView($0.stringValue.unicodeScalars.prefix(40)))
        }
        let member = names.isEmpty ? "" : "the member '\(names.joined(separator: "."))' of "
        return Refusal(
            .invalidContent,
            "JSON cannot encode \(member)the record '\(key)'. \(context.debugDescription)"
        )
    }
}

extension Refusal: CustomStringConvertible {
    /// The detail and the code.
    public var description: String { "\(detail) [\(code.rawValue)]" }
}
