import SanguineModel

extension JSONValue {
    /// The value in its canonical form (RFC 8785): one text for all the ways to write the same.
    ///
    /// Members are in the order of their names by UTF-16 code units, numbers as ECMAScript writes
    /// them, and strings escape no more than they must. One rule is stricter than the RFC's, which
    /// takes every number for a double: an integer that no double is keeps its digits, because two
    /// different ids must not be the same. So does any other number that no double is.
    package var canonical: [UInt8] {
        var text = JSONText(.canonical)
        text.append(self)
        return text.bytes
    }
}
