import SanguineModel

extension JSONValue {
    /// The value in its canonical form (RFC 8785), in which equal values have equal strings.
    ///
    /// Members are ordered by the UTF-16 code units of their names, numbers are formatted as in
    /// ECMAScript, and strings escape only required characters. One rule is stricter than the RFC,
    /// which treats every number as a double: a number that no double represents keeps its digits,
    /// because two different ids must not become equal.
    package var canonical: [UInt8] {
        var text = JSONText(.canonical)
        text.append(self)
        return text.bytes
    }
}
