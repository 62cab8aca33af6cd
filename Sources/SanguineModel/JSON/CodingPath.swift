extension Sequence<any CodingKey> {
    /// The path to a member, such as `operations.0.arguments`, with array elements as indexes.
    package var memberPath: String {
        map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
    }
}
