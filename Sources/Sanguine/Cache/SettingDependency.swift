import SanguineModel

/// The dependency of cached values on a member of the app's own settings in the account.
enum SettingDependency {
    /// Returns the name of the dependency on a member.
    static func name(_ member: String) -> String { "$account.settings.\(member)" }

    /// Returns the names of the dependencies on the members in which two settings differ.
    static func changed(from old: JSONValue, to new: JSONValue) -> [String] {
        guard case .object(let old) = old, case .object(let new) = new, old != new else {
            return []
        }
        return Set(old.keys).union(new.keys).filter { old[$0] != new[$0] }.sorted().map(name)
    }
}
