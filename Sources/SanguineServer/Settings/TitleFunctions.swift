import SanguineAuthority
import SanguineModel

/// Checks that the functions which make titles of threads can do so.
struct TitleFunctions {
    private struct Entry {
        var titles: String?
        /// The names of the input's members; `nil` if they are not known.
        var members: [String]?
    }

    private var entries: [String: Entry] = [:]

    /// Collects the functions of the settings, and those that are registered in code.
    init(_ settings: [FunctionSetting], _ functions: [ServerFunction]) {
        for setting in settings {
            let members = setting.kind == .echo ? ["text"] : setting.inputs.map(\.name)
            entries[setting.name] = Entry(titles: setting.rules.titles, members: members)
        }
        for function in functions {
            let members = function.inputs?.keys.map {
                $0.hasSuffix("?") ? String($0.dropLast()) : $0
            }
            entries[function.name] = Entry(titles: function.rules.titles, members: members)
        }
    }

    /// Returns descriptions of everything that is invalid.
    ///
    /// - Parameter isComplete: Whether a function that is not known does not exist.
    /// - Returns: One description for each invalid function.
    func faults(isComplete: Bool) -> [String] {
        entries.sorted { $0.key < $1.key }.compactMap { name, entry in
            guard let titles = entry.titles else { return nil }
            guard let other = entries[titles] else {
                guard isComplete else { return nil }
                return "Declare the function '\(titles)', which makes titles for '\(name)'."
            }
            let isFit = other.members?.allSatisfy(Self.members.contains) ?? true
            guard titles != name, other.titles == nil, isFit else {
                return """
                    Set 'titles' of the function '\(name)' to another function without titles, \
                    whose input has no members except 'question' and 'answer'.
                    """
            }
            return nil
        }
    }

    private static let members = ["question", "answer"]
}
