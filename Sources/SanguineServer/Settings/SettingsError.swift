/// All problems of a configuration, so that they can be fixed at once.
public struct SettingsError: Error, Hashable {
    /// A problem of a configuration.
    public enum Problem: Hashable, Sendable {
        /// A value that is not permitted. A secret is masked.
        case invalid(setting: String, value: String, allowed: String, source: String)
        /// An unknown name, with the most similar known one.
        case unknown(name: String, nearest: String?, source: String)
        /// A file that cannot be read as configuration.
        case unreadable(file: String, reason: String)
        /// A declaration in code that cannot be used, such as two types with the same name.
        case unusable(reason: String)
    }

    /// The problems; never empty.
    public let problems: [Problem]

    /// Creates an error.
    public init(_ problems: [Problem]) { self.problems = problems }
}

extension SettingsError.Problem: CustomStringConvertible {
    /// What is wrong, and how to fix it.
    public var description: String {
        switch self {
        case .invalid(let setting, let value, let allowed, let source):
            "'\(setting)' cannot be “\(value)” (\(source)). Allowed: \(allowed)."
        case .unknown(let name, let nearest?, let source):
            "There is no setting '\(name)' (\(source)). Did you mean '\(nearest)'?"
        case .unknown(let name, nil, let source):
            "There is no setting '\(name)' (\(source)). 'sanguine config' lists all settings."
        case .unreadable(let file, let reason):
            "The configuration '\(file)' cannot be read: \(reason)"
        case .unusable(let reason): reason
        }
    }
}

extension SettingsError: CustomStringConvertible {
    /// The problems, one per line.
    public var description: String { problems.map(\.description).joined(separator: "\n") }
}
