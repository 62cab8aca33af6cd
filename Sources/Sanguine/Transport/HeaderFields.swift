/// Header fields by name, which is not case-sensitive (RFC 9110, section 5.1).
extension [String: String] {
    /// Sets a field, and replaces those with the same name.
    mutating func setHeader(_ name: String, _ value: String) {
        for key in keys where key.isHeader(name) { self[key] = nil }
        self[name] = value
    }

    /// Sets a field unless there is one with the same name.
    mutating func setHeader(_ name: String, ifMissing value: @autoclosure () -> String) {
        if !keys.contains(where: { $0.isHeader(name) }) { self[name] = value() }
    }

    /// Adds the fields whose names are missing.
    mutating func addHeaders(ifMissing fields: [String: String]) {
        for (name, value) in fields { setHeader(name, ifMissing: value) }
    }
}

extension String {
    fileprivate func isHeader(_ name: String) -> Bool {
        self == name || lowercased() == name.lowercased()
    }
}
