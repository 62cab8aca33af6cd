import Configuration
import Foundation
import SanguineServer
import Synchronization
import SystemPackage

/// A YAML file of settings, and the names that it contains.
struct SettingsFile: Sendable {
    /// The path as it was given.
    let path: String
    /// The provider of the values.
    let provider: FileProvider<YAMLSnapshot>
    /// The names of all values, in alphabetical order, split into their levels.
    let keys: [[String]]

    /// Reads the file, or returns `nil` if there is no file or it contains no settings.
    ///
    /// - Throws: `SettingsError` if it is missing, too large, or not a mapping in YAML.
    static func read(at path: String?) async throws(SettingsError) -> SettingsFile? {
        guard let path else { return nil }
        func unreadable(_ reason: String) -> SettingsError {
            SettingsError([.unreadable(file: path, reason: reason)])
        }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw unreadable("the file does not exist or is not readable.")
        }
        guard data.count <= SettingsLoader.fileBytes else {
            throw unreadable("it is larger than \(SettingsLoader.fileBytes) bytes.")
        }
        let says = String(decoding: data, as: UTF8.self).split(whereSeparator: \.isNewline)
            .contains { line in
                let text = line.drop { $0.isWhitespace }
                return !text.isEmpty && !text.hasPrefix("#") && text != "---"
            }
        guard says else { return nil }
        let names = Names()
        // The snapshot does not list its names, but calls this closure for each to ask whether it
        // is secret.
        let options = YAMLSnapshot.ParsingOptions(
            secretsSpecifier: .dynamic { name, _ in
                names.insert(name)
                return name.hasPrefix("upstreams.") && name.hasSuffix(".key")
                    || Setting.all.contains { $0.key == name && $0.isSecret }
            }
        )
        let provider: FileProvider<YAMLSnapshot>
        do {
            provider = try await FileProvider<YAMLSnapshot>(
                parsingOptions: options,
                filePath: FilePath(path)
            )
        } catch {
            // Further lines of a parser's message quote the file, which may contain a secret.
            let line = "\(error)".split(whereSeparator: \.isNewline).first ?? "it is not YAML."
            throw unreadable(String(line))
        }
        // Of two spellings of one name, the parser would keep either value.
        let text = String(decoding: data, as: UTF8.self)
        let repeated = names.repeated.sorted().map { name in
            SettingsError.Problem.unreadable(
                file: path,
                reason: SettingPlaces(in: text).reason(ofRepeated: name)
            )
        }
        guard repeated.isEmpty else { throw SettingsError(repeated) }
        let keys = names.all.sorted().map { $0.split(separator: ".").map { String($0) } }
        return SettingsFile(path: path, provider: provider, keys: keys)
    }

    /// Returns the value of a name, or `nil` if there is none or it is not a string.
    func text(of key: [String]) -> String? {
        guard let value = try? provider.value(forKey: AbsoluteConfigKey(key), type: .string).value,
            case .string(let text) = value.content
        else { return nil }
        return text
    }

    /// Returns the value of a name as a string, or as a list of strings separated by commas.
    func list(of key: [String]) -> String? {
        if let text = text(of: key) { return text }
        let key = AbsoluteConfigKey(key)
        guard let value = try? provider.value(forKey: key, type: .stringArray).value,
            case .stringArray(let items) = value.content
        else { return nil }
        return items.joined(separator: ",")
    }

    /// Returns whether the name is present without a value.
    func isEmpty(_ key: [String]) -> Bool {
        ["", "~", "null"].contains(text(of: key))
    }

    /// The names found while parsing, behind a mutex because the parser's closure must be sendable.
    private final class Names: Sendable {
        private let names = Mutex<[String: Int]>([:])

        var all: Set<String> { names.withLock { Set($0.keys) } }

        /// The names of more than one value.
        var repeated: [String] { names.withLock { $0.filter { $1 > 1 }.map(\.key) } }

        func insert(_ name: String) { names.withLock { $0[name, default: 0] += 1 } }
    }
}
