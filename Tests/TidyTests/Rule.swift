import Testing

/// One rule of the house style: its name, its remedy, and the code that checks it.
///
/// A rule is added after it has been broken. Its samples break it or keep it, so that the tests can
/// show that it works. To make an exception, end the line with a
/// comment: `tidy: allow`, the rule, a colon and the reason.
struct Rule: Sendable, CustomTestStringConvertible {
    let name: String
    let remedy: String
    let scope: Scope
    let broken: [SourceFile]
    let clean: [SourceFile]
    /// Returns the numbers, from 1, of the lines that break the rule, including exceptions.
    let find: @Sendable (SourceFile) throws -> [Int]

    var testDescription: String { name }

    init(
        _ name: String,
        remedy: String,
        scope: Scope,
        broken: [SourceFile],
        clean: [SourceFile],
        find: @escaping @Sendable (SourceFile) throws -> [Int]
    ) {
        self.name = name
        self.remedy = remedy
        self.scope = scope
        self.broken = broken
        self.clean = clean
        self.find = find
    }

    /// Creates a rule that every match of a regular expression breaks.
    init(
        _ name: String,
        remedy: String,
        scope: Scope,
        part: any KeyPath<SourceFile, String> & Sendable,
        pattern: String,
        broken: [SourceFile],
        clean: [SourceFile]
    ) {
        self.init(name, remedy: remedy, scope: scope, broken: broken, clean: clean) { file in
            try file.lines(matching: pattern, in: part)
        }
    }

    /// Returns the lines of the file that break the rule without an exception.
    func brokenLines(in file: SourceFile) throws -> [Int] {
        guard scope.contains(file.path) else { return [] }
        let allowed = Set(file.exceptions.lazy.filter { $0.rule == name }.map(\.line))
        return try find(file).filter { !allowed.contains($0) }
    }
}

/// The files that a rule checks.
struct Scope: Sendable {
    let contains: @Sendable (_ path: String) -> Bool

    /// All files except the rules themselves, which must contain what they forbid.
    static let everything = Scope { !$0.hasPrefix("Tests/TidyTests/") }
    /// All Swift files.
    static let swift = Scope { $0.hasSuffix(".swift") }
    /// The shipped sources.
    static let sources = Scope { $0.hasPrefix("Sources/") && $0.hasSuffix(".swift") }
    /// The shipped sources of libraries.
    static let libraries = Scope {
        sources.contains($0) && !$0.hasPrefix("Sources/SanguineCommand/")
    }
    /// The modules that an app imports.
    static let client = Scope { path in
        ["Sources/Sanguine/", "Sources/SanguineModel/", "Sources/SanguineUI/"].contains {
            path.hasPrefix($0)
        }
    }
    /// The shipped sources and the benchmarks.
    static let sourcesAndBenchmarks = Scope {
        sources.contains($0) || $0.hasPrefix("Benchmarks/") && $0.hasSuffix(".swift")
    }
    /// The tests, except the complete programs of the guides.
    static let tests = Scope { path in
        let isTest = path.hasPrefix("Tests/") && !path.hasPrefix("Tests/ConsumerPackage/")
        return exampleTests.contains(path) || isTest && path.hasSuffix(".swift")
    }
    /// The tests of the examples.
    static let exampleTests = Scope { path in
        path.hasPrefix("Examples/") && path.contains("/Tests/") && path.hasSuffix(".swift")
    }
    /// The tests, except the documentation's samples, which are an app's code.
    static let testsButSamples = Scope {
        tests.contains($0) && !$0.hasPrefix("Tests/SnippetTests/")
    }
}

extension Rule {
    /// Every rule except the one about exceptions.
    static let ordinary = text + code + tests + structure + words

    /// Every rule.
    static let all = ordinary + [exceptions]

    /// An exception states its reason and is removed when it is no longer needed.
    static let exceptions = Rule(
        "exception",
        remedy: """
            Write `tidy: allow`, the name of a rule, a colon and the reason, on the line that \
            breaks the rule; remove it where nothing breaks it.
            """,
        scope: .everything,
        broken: [
            SourceFile("Sources/A/A.swift", "let a = Date()  // tidy: allow hidden-clock\n"),
            SourceFile("Sources/A/A.swift", "let a = b()  // tidy: allow hidden-clock: once\n"),
            SourceFile("Sources/A/A.swift", "let a = b()  // tidy: allow no-such-rule: once\n"),
        ],
        clean: [
            SourceFile(
                "Sources/A/A.swift",
                "let a = Date()  // tidy: allow hidden-clock: one place\n"
            )
        ]
    ) { file in
        try file.exceptions.filter { exception in
            guard !exception.reason.isEmpty,
                let rule = ordinary.first(where: { $0.name == exception.rule }),
                rule.scope.contains(file.path)
            else { return true }
            return try !rule.find(file).contains(exception.line)
        }
        .map(\.line)
    }
}
