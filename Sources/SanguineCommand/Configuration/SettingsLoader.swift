import Configuration
import Foundation
import SanguineServer

/// Loads a server's settings: flags override the environment, then the file, then defaults.
///
/// ```swift
/// let loader = SettingsLoader(flags: ["http.port": "0"], environment: environment, file: path)
/// let loaded = try await loader.load()
/// for warning in loaded.warnings { logger.warning("\(warning)") }
/// ```
struct SettingsLoader: Sendable {
    /// The source of a value.
    enum Source: Hashable, Sendable, CustomStringConvertible {
        case flag(String)
        case environment(String)
        case file(String)
        case `default`

        var description: String {
            switch self {
            case .flag(let name): "flag \(name)"
            case .environment(let name): "environment \(name)"
            case .file(let path): "file \(path)"
            case .default: "default"
            }
        }
    }

    /// A setting with its effective value.
    struct Effective: Hashable, Sendable {
        /// The name in the file.
        let key: String
        /// The value as text; `•••` for a secret, empty if there is none.
        let value: String
        /// The source of the value.
        let source: Source
    }

    /// The loaded settings.
    struct Loaded: Sendable {
        /// The validated settings.
        let settings: ServerSettings
        /// Each value with its source, in the order of the documentation, followed by quotas and
        /// functions.
        let effective: [Effective]
        /// Warnings about unknown names in the environment.
        let warnings: [String]
    }

    /// The longest configuration file, in bytes: 1 MiB.
    static let fileBytes = 1 << 20
    /// The variable that names the file if no flag does.
    static let fileVariable = "SANGUINE_CONFIG"

    private let flags: [String: String]
    private let environment: [String: String]
    private let file: String?
    private let otherVariables: Set<String>

    /// Creates a loader.
    ///
    /// - Parameters:
    ///   - flags: The values from the command line by the setting's key, without omitted flags.
    ///   - environment: The environment of the process.
    ///   - file: The path of a YAML file. Default: the value of `SANGUINE_CONFIG`, or no file.
    ///   - otherVariables: Variables that begin with `SANGUINE_` but belong to other parts.
    init(
        flags: [String: String] = [:],
        environment: [String: String],
        file: String? = nil,
        otherVariables: Set<String> = []
    ) {
        self.flags = flags
        self.environment = environment
        let named = environment[Self.fileVariable].flatMap { $0.isEmpty ? nil : $0 }
        self.file = file ?? named
        self.otherVariables = otherVariables.union([Self.fileVariable])
    }

    /// Reads all sources.
    ///
    /// - Throws: `SettingsError` with all problems, from any source.
    func load() async throws(SettingsError) -> Loaded {
        let file = try await SettingsFile.read(at: file)
        var problems = file.map(unknownNames(in:)) ?? []
        for key in flags.keys.sorted() where !Setting.all.contains(where: { $0.key == key }) {
            problems.append(unknown(key, among: Setting.all.map(\.key), source: "flag"))
        }
        var settings = ServerSettings()
        var effective: [Effective] = []
        let sources = providers(file: file)
        for setting in Setting.all {
            let source = apply(setting, from: sources, to: &settings, problems: &problems)
            effective.append(
                Effective(key: setting.key, value: setting.text(in: settings), source: source)
            )
        }
        if let file {
            NamedSettings(file: file, environment: environment).apply(to: &settings, &problems)
        }
        guard problems.isEmpty else { throw SettingsError(problems) }
        try settings.validate()
        effective += NamedSettings.effective(settings, file)
        return Loaded(settings: settings, effective: effective, warnings: warnings(settings))
    }

    private typealias SourcedProvider = (
        provider: any ConfigProvider, name: @Sendable (Setting) -> Source
    )

    private func providers(file: SettingsFile?) -> [SourcedProvider] {
        let given = flags.map { (AbsoluteConfigKey(ConfigKey($0)), $1) }
        let values = given.map { ($0, ConfigValue(.string($1), isSecret: false)) }
        var providers: [SourcedProvider] = [
            (
                InMemoryProvider(name: "flags", values: Dictionary(values) { _, last in last }),
                { .flag($0.flag ?? $0.key) }
            ),
            (
                EnvironmentVariablesProvider(environmentVariables: environment)
                    .prefixKeys(with: "sanguine"),
                { .environment($0.environmentName) }
            ),
        ]
        if let file { providers.append((file.provider, { _ in .file(file.path) })) }
        return providers
    }

    /// Sets a setting from the first source that contains it.
    private func apply(
        _ setting: Setting,
        from sources: [SourcedProvider],
        to settings: inout ServerSettings,
        problems: inout [SettingsError.Problem]
    ) -> Source {
        let key = AbsoluteConfigKey(ConfigKey(setting.key))
        for (provider, name) in sources {
            let source = name(setting)
            do {
                guard let text = try Self.text(of: key, isList: setting.isList, in: provider)
                else { continue }
                if !setting.set(text, in: &settings) {
                    problems.append(setting.refusal(of: text, source: "\(source)"))
                }
            } catch {
                // A list instead of a string, or the reverse.
                problems.append(setting.refusal(of: "…", source: "\(source)"))
            }
            return source
        }
        return .default
    }

    /// Returns the value as text, so that all sources are parsed by the same rules.
    private static func text(
        of key: AbsoluteConfigKey,
        isList: Bool,
        in provider: some ConfigProvider
    ) throws -> String? {
        if isList, let value = try? provider.value(forKey: key, type: .stringArray).value,
            case .stringArray(let items) = value.content
        {
            return items.joined(separator: ",")
        }
        guard let value = try provider.value(forKey: key, type: .string).value,
            case .string(let text) = value.content
        else { return nil }
        return text
    }
}

// Unknown names.
extension SettingsLoader {
    private func unknownNames(in file: SettingsFile) -> [SettingsError.Problem] {
        let source = "\(Source.file(file.path))"
        let known = Set(Setting.all.map(\.key))
        let sections = Set(
            Setting.all.compactMap { $0.key.split(separator: ".").first }
                .map { String($0) }
        ).union(NamedSettings.sections)
        return file.keys.compactMap { key in
            let name = key.joined(separator: ".")
            if known.contains(name) || NamedSettings.knows(key, in: file) { return nil }
            // An empty section.
            if key.count == 1, sections.contains(name), file.isEmpty(key) { return nil }
            let alternatives = NamedSettings.alternatives(to: key)
            return unknown(
                name,
                among: alternatives ?? known.union(sections).sorted(),
                source: source
            )
        }
    }

    private func unknown(
        _ name: String,
        among names: [String],
        source: String
    ) -> SettingsError.Problem {
        .unknown(name: name, nearest: NearestName.of(name, among: names), source: source)
    }

    private func warnings(_ settings: ServerSettings) -> [String] {
        let keys = settings.upstreams.map { UpstreamSetting.keyVariable(of: $0.name) }
        let known = Set(Setting.all.map(\.environmentName)).union(otherVariables).union(keys)
        return environment.keys.sorted().compactMap { name in
            guard name.hasPrefix("SANGUINE_"), !known.contains(name) else { return nil }
            return "\(unknown(name, among: known.sorted(), source: "environment"))"
        }
    }
}
