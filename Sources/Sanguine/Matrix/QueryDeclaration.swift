public import SanguineModel

/// The name and policy of a query, a list or a range, without its closure and parameters.
///
/// A row of the storage matrix, see ``SanguineClient/matrix()``.
///
/// ```swift
/// configuration.queries = [ValueQuery.profile("").declaration, ListQuery.feed.declaration]
/// ```
///
/// Several declarations of a name share a row. They may differ in the freshness, the time limit,
/// the retries and the priority, because these belong to the reader: each read uses its own. They
/// must agree in everything that determines how a value is stored and when it becomes stale: the
/// tier, the audience, the time for which it is kept, the version, the tags, the dependencies, the
/// events and the polling. A client with declarations that do not agree cannot be created.
///
/// Declarations are equal regardless of their ``place``.
public struct QueryDeclaration: Hashable, Sendable {
    /// The name of the query.
    public var name: String
    /// The policy of its values.
    public var policy: Policy
    /// Whether it is a query, a list or a range.
    ///
    /// Default: a query.
    public var kind: StorageMatrix.Row.Kind
    /// The name of the server's function that the query calls; `nil` for none.
    ///
    /// See ``calling(_:)``. Default: none.
    public var function: String?
    /// The place in the app's code where the query is declared; `nil` if it is unknown.
    public var place: DeclarationPlace?

    /// Creates a declaration.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - policy: The policy.
    ///   - kind: Whether it is a query, a list or a range. Default: a query.
    ///   - fileID: The file of the declaration. Default: that of the caller.
    ///   - line: The line of the declaration. Default: that of the caller.
    public init(
        name: String,
        policy: Policy,
        kind: StorageMatrix.Row.Kind = .query,
        fileID: StaticString = #fileID,
        line: UInt = #line
    ) {
        self.init(name, policy, kind, DeclarationPlace(fileID, line))
    }

    init(
        _ name: String,
        _ policy: Policy,
        _ kind: StorageMatrix.Row.Kind,
        _ place: DeclarationPlace?
    ) {
        (self.name, self.policy, self.kind, self.place) = (name, policy, kind, place)
    }

    /// Returns the declaration of a query whose values are answers of a function.
    ///
    /// The row then shows how the server stores the answers. If the function has the query's name,
    /// they share a row.
    public func calling<Call: FunctionCall>(_ call: Call.Type) -> Self {
        var declaration = self
        declaration.function = Call.name
        return declaration
    }

    /// Returns whether both have the same name, kind, function and policy.
    public static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.name == rhs.name && lhs.kind == rhs.kind && lhs.function == rhs.function
            && lhs.policy == rhs.policy
    }

    /// Hashes a part of what ``==(_:_:)`` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(name)
        hasher.combine(policy)
    }
}

/// A place in an app's code: `App/Profile.swift:12`.
public struct DeclarationPlace: Sendable, CustomStringConvertible {
    private let fileID: StaticString
    private let line: UInt

    /// Creates a place from `#fileID` and `#line`.
    public init(_ fileID: StaticString, _ line: UInt) { (self.fileID, self.line) = (fileID, line) }

    /// Returns whether both are the same place, in a few instructions.
    func isSame(as other: DeclarationPlace) -> Bool {
        // A file's name is a pointer, except for a single character.
        guard fileID.hasPointerRepresentation, other.fileID.hasPointerRepresentation else {
            return line == other.line && "\(fileID)" == "\(other.fileID)"
        }
        return line == other.line && fileID.utf8Start == other.fileID.utf8Start
    }

    /// The module and the file, and the line.
    public var description: String { "\(fileID):\(line)" }
}

extension QueryDeclaration {
    /// The first difference in what must be the same for one name; `nil` if there is none.
    func difference(from other: QueryDeclaration) -> String? {
        let (own, its) = (policy, other.policy)
        let differences = [
            ("kind", kind != other.kind), ("tier", own.tier != its.tier),
            ("audience", own.audience != its.audience), ("keep", own.keep != its.keep),
            ("version", own.version != its.version),
            ("tags", Set(own.tags) != Set(its.tags)),
            ("dependencies", Set(own.dependencies) != Set(its.dependencies)),
            ("refetchEvents", own.refetchEvents != its.refetchEvents),
            ("polling", own.polling != its.polling),
        ]
        return differences.first { $0.1 }?.0
    }

    /// Returns a description of two declarations that store the same name in different ways; `nil`
    /// if there are none.
    static func conflict(in declarations: [QueryDeclaration]) -> String? {
        var first: [String: QueryDeclaration] = [:]
        for declaration in declarations {
            guard let other = first[declaration.name] else {
                first[declaration.name] = declaration
                continue
            }
            guard let member = declaration.difference(from: other) else { continue }
            let places = [other, declaration].map { $0.place?.description ?? "an unknown place" }
            return """
                The query '\(declaration.name)' is declared at \(places[0]) and at \(places[1]) \
                with a different '\(member)': give one of them another name, or the same policy.
                """
        }
        return nil
    }
}
