import Configuration
import Foundation
import SanguineAuthority
import SanguineModel
import SanguineServer
import Synchronization
import SystemPackage

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
        if let file { applyLists(of: file, to: &settings, problems: &problems) }
        guard problems.isEmpty else { throw SettingsError(problems) }
        try settings.validate()
        effective += Self.lists(of: settings, file: file)
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

// Quotas, collections and functions, whose names are chosen in the file.
extension SettingsLoader {
    private func applyLists(
        of file: SettingsFile,
        to settings: inout ServerSettings,
        problems: inout [SettingsError.Problem]
    ) {
        let source = "\(Source.file(file.path))"
        applyQuotas(of: file, source, to: &settings, problems: &problems)
        applyProducts(of: file, source, to: &settings, problems: &problems)
        applyCollections(of: file, source, to: &settings, problems: &problems)
        applyUpstreams(of: file, source, to: &settings, problems: &problems)
        applyIdentity(of: file, source, to: &settings, problems: &problems)
        applyFunctions(of: file, source, to: &settings, problems: &problems)
    }

    private func applyQuotas(
        of file: SettingsFile,
        _ source: String,
        to settings: inout ServerSettings,
        problems: inout [SettingsError.Problem]
    ) {
        var quotas: [String: [QuotaSetting.Field?: String]] = [:]
        for key in file.keys where key.first == "quotas" {
            if key.count == 2 { quotas[key[1], default: [:]][nil] = file.text(of: key) ?? "" }
            guard key.count == 3, let field = QuotaSetting.Field(rawValue: key[2]) else { continue }
            quotas[key[1], default: [:]][field] = file.list(of: key) ?? ""
        }
        if quotas.isEmpty { return }
        settings.quotas = Self.made(of: quotas, &problems) {
            name,
            members throws(SettingsError) in
            guard let text = members[nil] else {
                var named: [QuotaSetting.Field: String] = [:]
                for (field, text) in members { if let field { named[field] = text } }
                return try QuotaSetting(name: name, members: named, source: source)
            }
            if let quota = QuotaSetting(name: name, text: text) { return quota }
            throw SettingsError([
                .invalid(
                    setting: "quotas.\(name)",
                    value: text,
                    allowed: QuotaSetting.allowed,
                    source: source
                )
            ])
        }
    }

    private func applyProducts(
        of file: SettingsFile,
        _ source: String,
        to settings: inout ServerSettings,
        problems: inout [SettingsError.Problem]
    ) {
        for key in file.keys where key.starts(with: ["appStore", "products"]) && key.count > 2 {
            let text = file.text(of: key) ?? ""
            let id = key.dropFirst(2).joined(separator: ".")
            if settings.appStore.products[id] != nil {
                problems.append(
                    .invalid(
                        setting: key.joined(separator: "."),
                        value: text,
                        allowed: "one declaration of each product",
                        source: source
                    )
                )
            } else if let product = StoreProduct(text: text) {
                settings.appStore.products[id] = product
            } else {
                problems.append(
                    .invalid(
                        setting: key.joined(separator: "."),
                        value: text,
                        allowed: StoreProduct.allowed,
                        source: source
                    )
                )
            }
        }
    }

    private func applyFunctions(
        of file: SettingsFile,
        _ source: String,
        to settings: inout ServerSettings,
        problems: inout [SettingsError.Problem]
    ) {
        var functions: [String: [FunctionSetting.Field: String]] = [:]
        var inputs: [String: [String: String]] = [:]
        for key in file.keys where key.first == "functions" && key.count > 2 {
            if key.count == 4, key[2] == "inputs" {
                inputs[key[1], default: [:]][key[3]] = file.list(of: key) ?? ""
            } else if let field = Self.field(of: key) {
                functions[key[1], default: [:]][field] =
                    (field.isList ? file.list(of: key) : file.text(of: key)) ?? ""
            }
        }
        if functions.isEmpty { return }
        settings.functions = Self.made(of: functions, &problems) {
            name,
            members throws(SettingsError) in
            try FunctionSetting(
                name: name,
                members: members,
                inputs: inputs[name] ?? [:],
                source: source
            )
        }
    }

    /// Creates the entries of a section, in the order of their names, and collects problems.
    private static func made<Members, Entry>(
        of entries: [String: Members],
        _ problems: inout [SettingsError.Problem],
        _ make: (String, Members) throws(SettingsError) -> Entry
    ) -> [Entry] {
        var made: [Entry] = []
        for (name, members) in entries.sorted(by: { $0.key < $1.key }) {
            do throws(SettingsError) {
                made.append(try make(name, members))
            } catch {
                problems += error.problems
            }
        }
        return made
    }

    /// Returns the member of a function that the name refers to.
    private static func field(of key: [String]) -> FunctionSetting.Field? {
        FunctionSetting.Field(rawValue: key.dropFirst(2).joined(separator: "."))
    }

    private func applyUpstreams(
        of file: SettingsFile,
        _ source: String,
        to settings: inout ServerSettings,
        problems: inout [SettingsError.Problem]
    ) {
        var upstreams: [String: [UpstreamSetting.Field: String]] = [:]
        for key in file.keys where key.first == "upstreams" && key.count == 3 {
            guard let field = UpstreamSetting.Field(rawValue: key[2]) else { continue }
            upstreams[key[1], default: [:]][field] = file.text(of: key) ?? ""
        }
        settings.upstreams = Self.made(of: upstreams, &problems) {
            name,
            members throws(SettingsError) in
            try UpstreamSetting(
                name: name,
                members: members,
                key: environment[UpstreamSetting.keyVariable(of: name)],
                source: source
            )
        }
    }

    private func applyIdentity(
        of file: SettingsFile,
        _ source: String,
        to settings: inout ServerSettings,
        problems: inout [SettingsError.Problem]
    ) {
        var providers: [String: [IdentitySetting.Field: String]] = [:]
        for key in file.keys where key.first == "identity" && key.count == 3 {
            guard let field = IdentitySetting.Field(rawValue: key[2]) else { continue }
            providers[key[1], default: [:]][field] =
                (field.isList ? file.list(of: key) : file.text(of: key)) ?? ""
        }
        settings.identity = Self.made(of: providers, &problems) {
            name,
            members throws(SettingsError) in
            try IdentitySetting(name: name, members: members, source: source)
        }
    }

    private func applyCollections(
        of file: SettingsFile,
        _ source: String,
        to settings: inout ServerSettings,
        problems: inout [SettingsError.Problem]
    ) {
        var collections: [String: [RecordCollection.Field: String]] = [:]
        for key in file.keys where key.first == "collections" {
            if key.count == 2, file.isEmpty(key) { collections[key[1]] = [:] }
            guard key.count == 3, let field = RecordCollection.Field(rawValue: key[2]) else {
                continue
            }
            collections[key[1], default: [:]][field] = file.list(of: key) ?? ""
        }
        if collections.isEmpty { return }
        settings.collections = Self.made(of: collections, &problems) {
            name,
            members throws(SettingsError) in
            try RecordCollection(name: name, members: members, source: source)
        }
    }

    private static func lists(of settings: ServerSettings, file: SettingsFile?) -> [Effective] {
        func source(_ list: String) -> Source {
            guard let file, file.keys.contains(where: { $0.first == list && $0.count > 1 })
            else { return .default }
            return .file(file.path)
        }
        let quotas = settings.quotas.flatMap { quota in
            quota.texts.map { field, text in
                Effective(
                    key: "quotas.\(quota.name)" + (field.isEmpty ? "" : ".\(field)"),
                    value: text,
                    source: source("quotas")
                )
            }
        }
        let functions = settings.functions.flatMap { function in
            function.texts.map { field, value in
                Effective(
                    key: "functions.\(function.name).\(field)",
                    value: value,
                    source: source("functions")
                )
            }
        }
        let collections = settings.collections.flatMap { collection in
            collection.texts.map { field, value in
                Effective(
                    key: "collections.\(collection.name).\(field.rawValue)",
                    value: value,
                    source: source("collections")
                )
            }
        }
        let upstreams = settings.upstreams.flatMap { upstream in
            upstream.texts.map { field, value in
                Effective(
                    key: "upstreams.\(upstream.name).\(field.rawValue)",
                    value: value,
                    source: source("upstreams")
                )
            }
        }
        let identity = settings.identity.flatMap { provider in
            provider.texts.map { field, value in
                Effective(
                    key: "identity.\(provider.name).\(field.rawValue)",
                    value: value,
                    source: source("identity")
                )
            }
        }
        return products(of: settings, file: file) + quotas + collections + upstreams + identity
            + functions
    }

    private static func products(of settings: ServerSettings, file: SettingsFile?) -> [Effective] {
        settings.appStore.products.sorted { $0.key < $1.key }.map { id, product in
            Effective(
                key: "appStore.products.\(id)",
                value: product.text,
                source: file.map { .file($0.path) } ?? .default
            )
        }
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
        ).union(["quotas", "collections", "functions", "upstreams", "identity"])
        return file.keys.compactMap { key in
            let name = key.joined(separator: ".")
            if known.contains(name) { return nil }
            // An empty section.
            if key.count == 1, sections.contains(name), file.isEmpty(key) { return nil }
            if key.first == "quotas" {
                if key.count == 2 { return nil }
                if key.count == 3, QuotaSetting.Field(rawValue: key[2]) != nil { return nil }
            }
            if key.starts(with: ["appStore", "products"]), key.count > 2 { return nil }
            if key.first == "collections" {
                if key.count == 2, file.isEmpty(key) { return nil }
                if key.count == 3, RecordCollection.Field(rawValue: key[2]) != nil { return nil }
            }
            if key.first == "functions", key.count > 2 {
                if key.count == 4, key[2] == "inputs" || Self.field(of: key) != nil { return nil }
                if key.count == 3, Self.field(of: key) != nil { return nil }
                let fields = FunctionSetting.Field.allCases.map(\.rawValue)
                let all = (fields + ["inputs"]).map { "functions.\(key[1]).\($0)" }
                return unknown(name, among: all, source: source)
            }
            if key.first == "upstreams", key.count == 3 {
                if UpstreamSetting.Field(rawValue: key[2]) != nil { return nil }
                let fields = UpstreamSetting.Field.allCases
                let all = fields.map { "upstreams.\(key[1]).\($0.rawValue)" }
                return unknown(name, among: all, source: source)
            }
            if key.first == "identity", key.count == 3 {
                if IdentitySetting.Field(rawValue: key[2]) != nil { return nil }
                let fields = IdentitySetting.Field.allCases
                let all = fields.map { "identity.\(key[1]).\($0.rawValue)" }
                return unknown(name, among: all, source: source)
            }
            return unknown(name, among: known.union(sections).sorted(), source: source)
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
