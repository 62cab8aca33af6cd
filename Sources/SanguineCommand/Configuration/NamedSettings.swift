import SanguineAuthority
import SanguineServer

/// The settings of a file whose names the file chooses: quotas, products, collections, upstreams,
/// identity providers and functions.
struct NamedSettings {
    let file: SettingsFile
    let environment: [String: String]

    private var source: String { "\(SettingsLoader.Source.file(file.path))" }

    /// Sets the lists of the settings, and adds the problems of their entries.
    ///
    /// A list that the file does not mention keeps its default.
    func apply(to settings: inout ServerSettings, _ problems: inout [SettingsError.Problem]) {
        applyQuotas(to: &settings, &problems)
        applyProducts(to: &settings, &problems)
        let collections = entries(of: "collections", RecordCollection.Field.self)
        let empty = names(of: "collections").filter { file.isEmpty(["collections", $0]) }
        let all = collections.merging(empty.map { ($0, [:]) }) { members, _ in members }
        make(all, &settings.collections, &problems) { name, members throws(SettingsError) in
            try RecordCollection(name: name, members: members, source: source)
        }
        let upstreams = entries(of: "upstreams", UpstreamSetting.Field.self) { _ in false }
        make(upstreams, &settings.upstreams, &problems) { name, members throws(SettingsError) in
            try UpstreamSetting(
                name: name,
                members: members,
                key: environment[UpstreamSetting.keyVariable(of: name)],
                source: source
            )
        }
        let identity = entries(of: "identity", IdentitySetting.Field.self, isList: \.isList)
        make(identity, &settings.identity, &problems) { name, members throws(SettingsError) in
            try IdentitySetting(name: name, members: members, source: source)
        }
        applyFunctions(to: &settings, &problems)
    }

    private func applyQuotas(
        to settings: inout ServerSettings,
        _ problems: inout [SettingsError.Problem]
    ) {
        // A quota is a number, or has members.
        var quotas: [String: (text: String?, members: [QuotaSetting.Field: String])] = [:]
        for (name, members) in entries(of: "quotas", QuotaSetting.Field.self) {
            quotas[name] = (nil, members)
        }
        for name in names(of: "quotas") {
            quotas[name] = (file.text(of: ["quotas", name]) ?? "", [:])
        }
        make(quotas, &settings.quotas, &problems) { name, quota throws(SettingsError) in
            guard let text = quota.text else {
                return try QuotaSetting(name: name, members: quota.members, source: source)
            }
            if let quota = QuotaSetting(name: name, text: text) { return quota }
            throw SettingsError([refusal("quotas.\(name)", text, QuotaSetting.allowed)])
        }
    }

    private func applyProducts(
        to settings: inout ServerSettings,
        _ problems: inout [SettingsError.Problem]
    ) {
        for key in file.keys where key.starts(with: ["appStore", "products"]) && key.count > 2 {
            let text = file.text(of: key) ?? ""
            let id = Self.member(of: key)
            if settings.appStore.products[id] != nil {
                problems.append(
                    refusal(key.joined(separator: "."), text, "one declaration of each product")
                )
            } else if let product = StoreProduct(text: text) {
                settings.appStore.products[id] = product
            } else {
                problems.append(
                    refusal(key.joined(separator: "."), text, StoreProduct.allowed)
                )
            }
        }
    }

    private func applyFunctions(
        to settings: inout ServerSettings,
        _ problems: inout [SettingsError.Problem]
    ) {
        var inputs: [String: [String: String]] = [:]
        for key in file.keys where key.first == "functions" && key.count == 4 {
            guard key[2] == "inputs" else { continue }
            inputs[key[1], default: [:]][key[3]] = file.list(of: key) ?? ""
        }
        let functions = entries(of: "functions", FunctionSetting.Field.self, isList: \.isList)
        make(functions, &settings.functions, &problems) { name, members throws(SettingsError) in
            try FunctionSetting(
                name: name,
                members: members,
                inputs: inputs[name] ?? [:],
                source: source
            )
        }
    }

    // MARK: - Sections

    /// Returns the names of a section that have a value instead of members.
    private func names(of section: String) -> [String] {
        file.keys.filter { $0.first == section && $0.count == 2 }.map { $0[1] }
    }

    /// Returns the members of each entry of a section.
    private func entries<Field: RawRepresentable<String> & Hashable>(
        of section: String,
        _ type: Field.Type,
        isList: (Field) -> Bool = { _ in true }
    ) -> [String: [Field: String]] {
        var entries: [String: [Field: String]] = [:]
        for key in file.keys where key.first == section && key.count > 2 {
            guard let field = Field(rawValue: Self.member(of: key)) else { continue }
            let text = isList(field) ? file.list(of: key) : file.text(of: key)
            entries[key[1], default: [:]][field] = text ?? ""
        }
        return entries
    }

    /// Creates the entries of a section, in the order of their names, and adds their problems.
    private func make<Members, Entry>(
        _ entries: [String: Members],
        _ list: inout [Entry],
        _ problems: inout [SettingsError.Problem],
        _ make: (String, Members) throws(SettingsError) -> Entry
    ) {
        guard !entries.isEmpty else { return }
        list = []
        for (name, members) in entries.sorted(by: { $0.key < $1.key }) {
            do throws(SettingsError) {
                list.append(try make(name, members))
            } catch {
                problems += error.problems
            }
        }
    }

    private func refusal(
        _ setting: String,
        _ value: String,
        _ allowed: String
    ) -> SettingsError.Problem {
        .invalid(setting: setting, value: value, allowed: allowed, source: source)
    }
}

// The names in a file.
extension NamedSettings {
    /// The members of the entries of each section.
    private static let members = [
        "quotas": QuotaSetting.Field.allCases.map(\.rawValue),
        "collections": RecordCollection.Field.allCases.map(\.rawValue),
        "upstreams": UpstreamSetting.Field.allCases.map(\.rawValue),
        "identity": IdentitySetting.Field.allCases.map(\.rawValue),
        "functions": FunctionSetting.Field.allCases.map(\.rawValue) + ["inputs"],
    ]

    /// The names of the sections.
    static var sections: Set<String> { Set(members.keys) }

    /// Returns whether a name in a file belongs to an entry.
    static func knows(_ key: [String], in file: SettingsFile) -> Bool {
        if key.starts(with: ["appStore", "products"]) { return key.count > 2 }
        guard let section = key.first, let members = members[section] else { return false }
        switch (section, key.count) {
        case ("quotas", 2): return true
        case ("collections", 2): return file.isEmpty(key)
        case ("functions", 3) where key[2] == "inputs": return false
        case ("functions", 4) where key[2] == "inputs": return true
        default: return key.count > 2 && members.contains(member(of: key))
        }
    }

    /// Returns the names that an unknown one may stand for, or `nil` outside of an entry.
    static func alternatives(to key: [String]) -> [String]? {
        guard let section = key.first, let members = members[section] else { return nil }
        switch section {
        case "functions" where key.count > 2, "upstreams" where key.count == 3,
            "identity" where key.count == 3:
            return members.map { "\(section).\(key[1]).\($0)" }
        default: return nil
        }
    }

    /// The name of an entry's member, such as `limit` in `quotas.readings.limit`.
    private static func member(of key: [String]) -> String {
        key.dropFirst(2).joined(separator: ".")
    }
}

// The effective values.
extension NamedSettings {
    /// Returns each value of the lists, with its source.
    static func effective(
        _ settings: ServerSettings,
        _ file: SettingsFile?
    ) -> [SettingsLoader.Effective] {
        func values(
            _ section: String,
            _ name: String,
            _ texts: [(member: String, text: String)]
        ) -> [SettingsLoader.Effective] {
            let isInFile = file?.keys.contains { $0.first == section && $0.count > 1 } == true
            let origin = isInFile ? file : nil
            let source: SettingsLoader.Source = origin.map { .file($0.path) } ?? .default
            return texts.map { member, text in
                let key = ([section, name] + (member.isEmpty ? [] : [member]))
                return SettingsLoader.Effective(
                    key: key.joined(separator: "."),
                    value: text,
                    source: source
                )
            }
        }
        let products = settings.appStore.products.sorted { $0.key < $1.key }.map { id, product in
            SettingsLoader.Effective(
                key: "appStore.products.\(id)",
                value: product.text,
                source: file.map { .file($0.path) } ?? .default
            )
        }
        return products
            + settings.quotas.flatMap { values("quotas", $0.name, $0.texts.map { ($0, $1) }) }
            + settings.collections.flatMap { values("collections", $0.name, texts($0.texts)) }
            + settings.upstreams.flatMap { values("upstreams", $0.name, texts($0.texts)) }
            + settings.identity.flatMap { values("identity", $0.name, texts($0.texts)) }
            + settings.functions.flatMap { values("functions", $0.name, $0.texts.map { ($0, $1) }) }
    }

    private static func texts<Field: RawRepresentable<String>>(
        _ texts: [(field: Field, text: String)]
    ) -> [(member: String, text: String)] {
        texts.map { ($0.field.rawValue, $0.text) }
    }
}
