import Foundation
import Hummingbird
import SanguineAuthority
import SanguineModel

/// `/v1/sync` and `/v1/collections`.
struct SyncRoutes: Sendable {
    let authority: Authority
    let gate: Gate

    func add(to routes: RouterGroup<ServerContext>) {
        routes.post("sync/push", use: push)
        routes.get("sync/pull", use: pull)
        routes.get("collections/:name/records", use: records)
        routes.get("collections/:name/records/:id", use: record)
    }

    @Sendable
    private func push(_ request: Request, _ context: ServerContext) async throws -> Response {
        let (identity, body) = try await gate.body(
            request,
            context,
            as: PushRequest.self,
            values: JSONBounds.pushedValues
        )
        let answer = try await authority.push(identity.account, body)
        return Answers.changed(answer, head: answer.head)
    }

    @Sendable
    private func pull(_ request: Request, _ context: ServerContext) async throws -> Response {
        let query = try Self.pullRequest(request)
        let identity = try await gate.read(request, context)
        return Answers.read(try await authority.pullJSON(identity.account, query), to: request)
    }

    private static func pullRequest(
        _ request: Request
    ) throws(Problem) -> Authority.PullRequest {
        let parameters = request.uri.queryParameters
        func number(_ name: String, from least: Int64 = 0) throws(Problem) -> Int64? {
            guard let text = parameters[name[...]] else { return nil }
            guard let number = ListQuery.number(text), number >= least else {
                throw Problem(.malformedRequest, "Set '\(name)' to a whole number from \(least).")
            }
            return number
        }
        var operations: [Identifier]?
        if let text = parameters["operations"] {
            operations = []
            for text in text.split(separator: ",") {
                guard let id = Identifier(text) else {
                    throw Problem(.malformedRequest, "Set 'operations' to ids of operations.")
                }
                operations?.append(id)
            }
        }
        guard operations?.count ?? 0 <= WireLimits.operationsAsked else {
            throw Problem(
                .malformedRequest,
                "Ask about at most \(WireLimits.operationsAsked) operations."
            )
        }
        return Authority.PullRequest(
            since: try number("since") ?? 0,
            limit: try number("limit", from: 1).map { Int(clamping: $0) },
            horizon: try number("horizon"),
            operations: operations
        )
    }

    @Sendable
    private func records(_ request: Request, _ context: ServerContext) async throws -> Response {
        let query = try ListQuery(request)
        let asked = try Self.recordsRequest(request, query)
        let identity = try await gate.read(request, context)
        let page = try await authority.records(
            in: try context.parameters.require("name"),
            for: identity.account,
            asked
        )
        guard let fields = query.fields else { return Answers.read(page, to: request) }
        let items = page.items.map { $0.keeping(fields) }
        return Answers.read(
            Page(items: items, hasMore: page.hasMore, nextCursor: page.nextCursor),
            to: request
        )
    }

    private static func recordsRequest(
        _ request: Request,
        _ query: ListQuery
    ) throws(Problem) -> Authority.RecordsRequest {
        var asked = Authority.RecordsRequest(limit: query.limit, cursor: query.cursor)
        for (name, text) in request.uri.queryParameters {
            switch name {
            case "order": asked.order = String(text)
            case "ids":
                // What is no id names no record.
                asked.ids = text.split(separator: ",").compactMap { RecordID($0) }
            default:
                guard name.hasPrefix("where.") else { continue }
                asked.conditions[String(name.dropFirst(6))] = value(text)
            }
        }
        guard asked.ids?.count ?? 0 <= WireLimits.largestPage else {
            throw Problem(.malformedRequest, "Ask for at most \(WireLimits.largestPage) 'ids'.")
        }
        return asked
    }

    /// A scalar as JSON writes it; any other text stands for itself.
    private static func value(_ text: Substring) -> JSONValue {
        let text = String(text)
        switch try? JSONDecoder().decode(JSONValue.self, from: Data(text.utf8)) {
        case nil, .array, .object: return .string(text)
        case let value?: return value
        }
    }

    @Sendable
    private func record(_ request: Request, _ context: ServerContext) async throws -> Response {
        let identity = try await gate.read(request, context)
        guard let id = context.parameters.get("id").flatMap({ RecordID($0) }) else {
            throw Problem(.notFound, "Use the id of a record that this account may read.")
        }
        let name = try context.parameters.require("name")
        return Answers.read(
            try await authority.record(id, in: name, for: identity.account),
            to: request
        )
    }
}

extension RecordChange {
    /// The members of the change that were asked for, and those of its value.
    ///
    /// Names that a change has mean those; others mean members of the value. Without any of the
    /// first kind the change stays whole around its value.
    fileprivate func keeping(_ fields: Set<String>) -> JSONValue {
        let own = ["collection", "id", "seq", "deleted", "value"]
        let named = fields.intersection(own)
        let inside = fields.subtracting(own)
        var members: [String: JSONValue] = [
            "collection": .string(collection), "id": .string(id.text), "seq": .integer(seq),
            "deleted": .bool(deleted), "value": value ?? .null,
        ]
        if !inside.isEmpty, !named.contains("value"), case .object(let values)? = value {
            members["value"] = .object(values.filter { inside.contains($0.key) })
        }
        guard !named.isEmpty else { return .object(members) }
        let kept = inside.isEmpty ? named : named.union(["value"])
        return .object(members.filter { kept.contains($0.key) })
    }
}
