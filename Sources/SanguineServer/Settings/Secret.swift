/// A string, such as a key, that must not appear in logs, errors or debugger output.
public struct Secret: Hashable, Sendable {
    /// The text that is displayed instead.
    public static let mask = "•••"

    private let text: String

    /// Creates a secret.
    public init(_ text: String) { self.text = text }

    /// Returns the string itself.
    ///
    /// Call it only where the text is sent, and do not store the result.
    public func reveal() -> String { text }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// `•••`.
    public var description: String { Self.mask }
    /// `•••`.
    public var debugDescription: String { Self.mask }
    /// An empty mirror.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
