/// A step of a scenario: what users do, and how often.
struct LoadStep: Hashable, Sendable, CustomStringConvertible {
    /// The steps that need no declaration.
    enum Known: String, CaseIterable, Sendable {
        /// Loads the first page of the list.
        case feed
        /// Loads the page after the one loaded last.
        case page
        /// Creates a record that names a post.
        case like
        /// Creates a post.
        case post
        /// Opens a live connection, which is held until the end.
        case live
        /// Calls a function.
        case ask
    }

    /// The name of a known step or of a declared request.
    var name: String
    /// The expected number of times in each round of a user.
    ///
    /// Of 2.3, a user does two, and three with a chance of 30 percent.
    var weight: Double
    /// Whether only the first round has it.
    var isOnce: Bool

    init(_ name: String, weight: Double = 1, isOnce: Bool = false) {
        self.name = name
        self.weight = weight
        self.isOnce = isOnce
    }

    /// Parses `name`, `name:weight` or `name:weight:once`.
    ///
    /// - Throws: ``Failure`` that names the allowed forms.
    init(parsing text: String) throws(Failure) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard let name = parts.first, Self.isName(name), parts.count <= 3,
            parts.count < 3 || parts[2] == "once",
            let weight = parts.count > 1 ? Double(parts[1]) : 1,
            LoadLimits.weight.contains(weight)
        else {
            throw Failure(
                """
                '\(text)' is not a step. Write NAME, NAME:WEIGHT or NAME:WEIGHT:once, with a \
                weight from 0.001 to 100, such as 'page:2' or 'ask:1:once'.
                """
            )
        }
        self.init(String(name), weight: weight, isOnce: parts.count == 3)
    }

    var known: Known? { Known(rawValue: name) }

    var description: String {
        let number = weight == weight.rounded() ? "\(Int(weight))" : "\(weight)"
        return "\(name):\(number)\(isOnce ? ":once" : "")"
    }

    /// Returns whether the text has 1 to 40 letters, digits and hyphens in ASCII.
    static func isName(_ text: some StringProtocol) -> Bool {
        (1...40).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                byte == UInt8(ascii: "-") || (48...57).contains(byte)
                    || (97...122).contains(byte | 0x20)
            }
    }
}

/// A request that a scenario declares.
struct LoadRequest: Hashable, Sendable {
    /// The allowed methods.
    static let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]

    /// The method in upper case.
    var method: String
    /// The path with its query; `{{id}}` is a new UUID, `{{user}}` the number of the user and
    /// `{{post}}` the id of a post.
    var path: String
    /// The body in JSON with the same placeholders, or `nil` for none.
    var body: String?

    /// The reason why the request cannot be sent, or `nil` if it can.
    var problem: String? {
        if !Self.methods.contains(method) {
            return "its method is not one of \(Self.methods.joined(separator: ", "))."
        }
        if !path.hasPrefix("/") || path.utf8.contains(where: { $0 <= 32 || $0 == 127 }) {
            return "its path does not begin with a slash, or contains spaces."
        }
        return body != nil && method == "GET" ? "a GET has no body." : nil
    }
}
