import Foundation

/// The types of the sources, by module, and their extensions in other files.
///
/// It relies on the formatting of the sources: a declaration of a file starts in the first column,
/// and so does the brace that closes it.
struct TypeMap {
    /// A type or an extension at the top level of a file.
    struct Declaration {
        let kind: String
        /// The module and the name.
        let type: String
        let path: String
        let line: Int
        /// The lines after the first one, up to the closing brace, without literals and comments.
        let body: [String]
        private let isPrivate: Bool

        fileprivate init(_ file: SourceFile, line: Int, head: String, kind: String, name: String) {
            self.kind = kind
            type = "\(file.target ?? "").\(name)"
            path = file.path
            self.line = line
            isPrivate = head.hasPrefix("private ") || head.hasPrefix("fileprivate ")
            let isOneLine = head.trimmingCharacters(in: .whitespaces).hasSuffix("}")
            let rest = file.code.components(separatedBy: "\n").dropFirst(line)
            body = isOneLine ? [] : Array(rest.prefix { !$0.hasPrefix("}") })
        }

        /// Whether it adds something that other files can use.
        var isVisible: Bool {
            let pattern = #/\b(?:func|var|let|init|subscript|struct|enum|class)\b/#
            let members = body.filter { line in
                line.hasPrefix("    ") && !line.hasPrefix("     ") && line.contains(pattern)
            }
            return !isPrivate && (members.isEmpty || members.contains { !$0.contains("private ") })
        }

        /// Whether it changes the value that it extends.
        var isMutating: Bool { body.contains { $0.contains("mutating func ") } }

        /// The names of stored properties that other files of the module can use, and that hold
        /// state: those that vary, and those with a lock.
        var openState: Set<String> {
            let pattern = #/^    ((?:[@a-z]+(?:\(\w+\))? )*)(var|let) (\w+)(.*)$/#
            let names = body.compactMap { line -> String? in
                guard let match = line.firstMatch(of: pattern) else { return nil }
                let modifiers = match.1.split(separator: " ")
                // Public properties of a structure are its interface.
                let isClosed = modifiers.contains { ["private", "fileprivate"].contains($0) }
                let isData = kind == "struct" && modifiers.contains("public")
                guard !isClosed, !isData, !modifiers.contains("static") else { return nil }
                let rest = match.4
                let isLock = ["Mutex<", "Mutex(", "Atomic<"].contains { rest.contains($0) }
                let isComputed = rest.split(separator: "=").first?.contains("{") ?? false
                return match.2 == "var" && !isComputed || isLock ? String(match.3) : nil
            }
            return Set(names)
        }
    }

    private(set) var types: [String: [Declaration]] = [:]
    private(set) var extensions: [String: [Declaration]] = [:]

    init(of files: [SourceFile]) throws {
        let pattern = #"""
            ^(?:@\w+(?:\([^()\n]*\))? )*(?:[a-z]+ )*(?:class|actor|struct|extension) \w+(?![\w.]).*$
            """#
        for file in files where Scope.sources.contains(file.path) {
            for (line, head) in try file.matches(of: pattern, in: \.code) {
                let words = head.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.map(
                    String.init
                )
                let kinds = ["class", "actor", "struct", "extension"]
                guard let index = words.firstIndex(where: kinds.contains), index + 1 < words.count
                else { continue }
                let declaration = Declaration(
                    file,
                    line: line,
                    head: head,
                    kind: words[index],
                    name: words[index + 1]
                )
                if declaration.kind == "extension" {
                    extensions[declaration.type, default: []].append(declaration)
                } else {
                    types[declaration.type, default: []].append(declaration)
                }
            }
        }
    }

    /// The extensions of a type in files that do not declare it.
    func extensionsElsewhere(of type: String) -> [Declaration] {
        let homes = Set(types[type]?.map(\.path) ?? [])
        guard !homes.isEmpty else { return [] }
        return extensions[type]?.filter { !homes.contains($0.path) } ?? []
    }

    /// The files that extend a type with something that other files can use.
    func extendingFiles(of type: String) -> Set<String> {
        Set(extensionsElsewhere(of: type).filter(\.isVisible).map(\.path))
    }

    /// The uses of a type's open state by its extensions in other files: the path, and the names.
    ///
    /// An extension that only reads the properties of a structure is no second owner of them.
    func usesOfState(of type: String) throws -> [String: Set<String>] {
        let state = types[type]?.reduce(into: Set<String>()) { $0.formUnion($1.openState) } ?? []
        guard !state.isEmpty else { return [:] }
        let isValue = types[type]?.contains { $0.kind == "struct" } == true
        // A name that is not a member of something else, a label or a declared parameter.
        let names = state.sorted().joined(separator: "|")
        let pattern = #"(?<![\w.])(?:self\.)?(\#(names))\b(?!\s*:)"#
        var uses: [String: Set<String>] = [:]
        for part in extensionsElsewhere(of: type) where !isValue || part.isMutating {
            let body = SourceFile("body.md", part.body.joined(separator: "\n"))
            let found = try body.matches(of: pattern, in: \.text).map(\.text)
            if !found.isEmpty { uses[part.path, default: []].formUnion(found) }
        }
        return uses
    }
}
