/// A setting: its names, its permitted values, and its place in ``ServerSettings``.
///
/// The same key is used everywhere: `http.adminPort` is a nested member in the file,
/// `SANGUINE_HTTP_ADMIN_PORT` in the environment and, if it has a flag, `--admin-port` on the
/// command line.
public struct Setting: Sendable {
    /// The key path of a value in the settings, and its permitted values.
    enum Field: Sendable {
        typealias Path<Value> = any WritableKeyPath<ServerSettings, Value> & Sendable

        case text(Path<String>, characters: ClosedRange<Int>)
        case optionalText(Path<String?>)
        case secret(Path<Secret?>)
        case texts(Path<[String]>)
        case choice(Path<String>, of: [String])
        case flag(Path<Bool>)
        case integer(Path<Int>, ClosedRange<Int>)
        case optionalInteger(Path<Int?>, ClosedRange<Int>)
        case duration(Path<Duration>, ClosedRange<Duration>)
    }

    /// The name in the file: `http.adminPort`.
    public let key: String
    /// The flag of `sanguine serve`, or `nil` without one.
    public let flag: String?
    /// A description in one sentence.
    public let summary: String

    let field: Field
    let isValid: @Sendable (String) -> Bool
    let allowedBesides: String?

    /// Creates a setting; `isValid` adds a condition for a string, which `allowed` describes.
    init(
        _ key: String,
        _ field: Field,
        flag: String? = nil,
        allowed: String? = nil,
        isValid: @escaping @Sendable (String) -> Bool = { _ in true },
        _ summary: String
    ) {
        self.key = key
        self.field = field
        self.flag = flag
        self.summary = summary
        self.isValid = isValid
        allowedBesides = allowed
    }

    /// The name in the environment: `SANGUINE_HTTP_ADMIN_PORT`.
    public var environmentName: String {
        var name = "SANGUINE_"
        for character in key {
            if character.isUppercase { name += "_" }
            name += character == "." ? "_" : character.uppercased()
        }
        return name
    }

    /// Whether the value must not be shown.
    public var isSecret: Bool {
        guard case .secret = field else { return false }
        return true
    }

    /// Whether the value is a list: a sequence in the file, separated by commas elsewhere.
    public var isList: Bool {
        guard case .texts = field else { return false }
        return true
    }

    /// The default in the form of the file; empty if there is none.
    public var defaultText: String { text(in: ServerSettings()) }

    /// A description of the permitted values.
    public var allowed: String {
        if let allowedBesides { return allowedBesides }
        return switch field {
        case .text(_, let range): "\(range.lowerBound) to \(range.upperBound) characters"
        case .optionalText, .secret: "text"
        case .texts: "a list of strings"
        case .choice(_, let names): names.joined(separator: ", ")
        case .flag: "true, false"
        case .integer(_, let range), .optionalInteger(_, let range):
            "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .duration(_, let range):
            "a duration from \(DurationText.text(range.lowerBound)) to "
                + "\(DurationText.text(range.upperBound)), such as 500ms, 30s, 15m, 48h or 60d"
        }
    }

    /// Returns the value in the form of the file; empty without a value, masked if secret.
    public func text(in settings: ServerSettings) -> String {
        switch field {
        case .text(let path, _), .choice(let path, _): settings[keyPath: path]
        case .optionalText(let path): settings[keyPath: path] ?? ""
        case .secret(let path): settings[keyPath: path] == nil ? "" : Secret.mask
        case .texts(let path): settings[keyPath: path].joined(separator: ",")
        case .flag(let path): String(settings[keyPath: path])
        case .integer(let path, _): String(settings[keyPath: path])
        case .optionalInteger(let path, _): settings[keyPath: path].map { String($0) } ?? ""
        case .duration(let path, _): DurationText.text(settings[keyPath: path])
        }
    }

    /// Sets the value from the text of a flag, the environment or the file.
    ///
    /// An empty string removes an optional value. Items of a list are separated by commas.
    ///
    /// - Returns: Whether the text is valid. If not, the settings are unchanged.
    public func set(_ text: String, in settings: inout ServerSettings) -> Bool {
        var changed = settings
        guard assign(text, to: &changed), problem(in: changed) == nil else { return false }
        settings = changed
        return true
    }

    private func assign(_ text: String, to settings: inout ServerSettings) -> Bool {
        switch field {
        case .text(let path, _), .choice(let path, _):
            settings[keyPath: path] = text
        case .optionalText(let path):
            settings[keyPath: path] = text.isEmpty ? nil : text
        case .secret(let path):
            settings[keyPath: path] = text.isEmpty ? nil : Secret(text)
        case .texts(let path):
            settings[keyPath: path] = Self.items(of: text)
        case .flag(let path):
            guard let value = Bool(text) else { return false }
            settings[keyPath: path] = value
        case .integer(let path, _):
            guard let value = Self.integer(text) else { return false }
            settings[keyPath: path] = value
        case .optionalInteger(let path, _):
            let value = Self.integer(text)
            guard text.isEmpty || value != nil else { return false }
            settings[keyPath: path] = value
        case .duration(let path, _):
            guard let value = DurationText.duration(text) else { return false }
            settings[keyPath: path] = value
        }
        return true
    }

    /// Returns the problem of the value in the settings, or `nil`.
    func problem(in settings: ServerSettings, source: String = "settings") -> SettingsError.Problem?
    {
        let isAllowed: Bool =
            switch field {
            case .text(let path, let range):
                range.contains(settings[keyPath: path].count) && isValid(settings[keyPath: path])
            case .choice(let path, let names): names.contains(settings[keyPath: path])
            case .optionalText(let path): settings[keyPath: path].map(isValid) ?? true
            case .secret(let path): settings[keyPath: path].map { isValid($0.reveal()) } ?? true
            case .texts(let path): settings[keyPath: path].allSatisfy(isValid)
            case .flag: true
            case .integer(let path, let range): range.contains(settings[keyPath: path])
            case .optionalInteger(let path, let range):
                settings[keyPath: path].map(range.contains) ?? true
            case .duration(let path, let range): range.contains(settings[keyPath: path])
            }
        if isAllowed { return nil }
        return refusal(of: text(in: settings), source: source)
    }

    /// Returns the problem of an invalid value; a secret is masked.
    public func refusal(of value: String, source: String) -> SettingsError.Problem {
        .invalid(
            setting: key,
            value: isSecret ? Secret.mask : value,
            allowed: allowed,
            source: source
        )
    }

    /// Splits a list that is written as one string, separated by commas.
    static func items(of text: String) -> [String] {
        text.split(separator: ",").map { item in
            let start = item.drop { $0.isWhitespace }
            return String(start.reversed().drop { $0.isWhitespace }.reversed())
        }
        .filter { !$0.isEmpty }
    }

    /// Parses `60000` and `60_000`, but nothing else that `Int` would accept, such as `+1`.
    private static func integer(_ text: String) -> Int? {
        guard text.first != "+", text.first != "_", text.last != "_" else { return nil }
        return Int(text.filter { $0 != "_" })
    }
}
