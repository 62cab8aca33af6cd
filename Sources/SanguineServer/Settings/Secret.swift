/// A text that must not end up in a log, an error or a debugger's dump, such as a key.
public struct Secret: Hashable, Sendable {
    /// What is shown in its place.
    public static let mask = "•••"

    private let text: String

    /// Creates a secret.
    public init(_ text: String) { self.text = text }

    /// The text itself.
    ///
    /// Use it where it is sent, and keep it nowhere else.
    public func reveal() -> String { text }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// `•••`.
    public var description: String { Self.mask }
    /// `•••`.
    public var debugDescription: String { Self.mask }
    /// Nothing.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
