extension Sequence<any CodingKey> {
    /// The way to a member, as in `operations.0.arguments`: an element of an array by its number.
    package var memberPath: String {
        map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
    }
}
