import Foundation
import SanguineModel

/// Metadata of a base, in addition to its value.
struct BaseMetadata: Sendable {
    /// The operations that the base may contain: their effects are not applied to it.
    var possiblyApplied = PossiblyApplied()
    /// Whether a part of it is older than the rest.
    var isPatched = false
}

/// The base that results from a fetched value whose query has effects.
///
/// A response does not say which operations it contains. The times of requests decide:
///
/// 1. An operation that was applied before the value was requested is contained: its effect ends.
/// 2. An operation that has not reached the server is not contained: its effect is applied.
/// 3. An operation that is in progress, or whose response was lost, may be contained. If its effect
///    changes nothing the second time, because it sets a value or checks first, it is applied. If
///    it adds, the parts that it changes keep their earlier value, and everything else
///    comes from the response. Without an earlier value, the response is shown as it is and the
///    effect is left out: see ``BaseMetadata/possiblyApplied``.
///
/// As a result, an effect is never shown twice, a shown effect stays, and changes by others appear.
///
/// Pure, except for the app's code in the effects: built with no lock held.
struct FetchedBase: Sendable {
    /// The value without the effects that remain.
    var base: ValueBox
    /// The operations that the base contains: their effects have ended.
    var settled: [Int64] = []
    /// The effects that are still to be applied.
    var remaining: [Effect] = []
    /// Other metadata of the base.
    var notes = BaseMetadata()

    /// The value to show.
    var shown: ValueBox {
        EffectTable.List(effects: remaining).applied(
            to: base,
            possiblyApplied: notes.possiblyApplied
        )
    }

    /// Creates the base of a query without effects.
    init(_ value: ValueBox) { base = value }

    /// Creates the base that results from a requested value.
    ///
    /// `nil` if the parts that the effects change cannot be separated: then the held base must
    /// stay.
    ///
    /// - Parameters:
    ///   - value: The value of a fetch, or of an operation's response.
    ///   - number: The cache's count when it was requested.
    ///   - own: The operation whose response it is, if any.
    ///   - effects: The effects on the query's values, in their order.
    ///   - held: The held base, and the operations that it may contain.
    ///   - decode: Decodes a value from JSON.
    init?(
        _ value: ValueBox,
        askedAt number: UInt64,
        of own: Int64? = nil,
        effects: [Effect],
        held: (base: ValueBox, notes: BaseMetadata)?,
        decode: (Data) throws -> ValueBox
    ) {
        base = value
        var over: [Effect] = []
        for effect in effects {
            if effect.sequence == own || effect.isContained(in: value, askedAt: number) {
                over.append(effect)
            } else {
                remaining.append(effect)
            }
        }
        settled = over.map(\.sequence)
        let adding = Self.adding(remaining, to: value)
        let old = held?.notes.possiblyApplied ?? PossiblyApplied()
        let known = held == nil ? [] : adding.filter { !old.contains($0) }
        notes.possiblyApplied = PossiblyApplied(held == nil ? adding : adding.filter(old.contains))
        guard !known.isEmpty, let held else { return }
        let before = EffectTable.List(effects: over, showsAll: true).applied(
            to: held.base,
            possiblyApplied: old
        )
        let after = EffectTable.List(effects: known, showsAll: true).applied(to: before)
        guard let patched = Self.patch(value, before, after, decode) else { return nil }
        base = patched
        notes.isPatched = true
    }

    /// Returns the effects that the value may contain and that would then be shown twice.
    private static func adding(_ effects: [Effect], to value: ValueBox) -> [Effect] {
        guard effects.contains(where: \.mayBeContained) else { return [] }
        var value = value
        return effects.filter { effect in
            let once = effect.applied(to: value)
            if effect.mayBeContained, !effect.applied(to: once).isEqual(to: once) { return true }
            value = once
            return false
        }
    }

    // MARK: - Patching

    /// Returns the fetched value, in which everything that differs between `before` and `after` is
    /// as in `before`.
    ///
    /// Compares JSON; `nil` if the JSON does not represent the value.
    static func patch(
        _ fetched: ValueBox,
        _ before: ValueBox,
        _ after: ValueBox,
        _ decode: (Data) throws -> ValueBox
    ) -> ValueBox? {
        guard let tree = tree(fetched), let first = Self.tree(before),
            let second = Self.tree(after),
            // A value that JSON cannot carry, such as a large unsigned number, must not change.
            value(tree, decode)?.isEqual(to: fetched) == true,
            let patched = patch(tree, first, second)
        else { return nil }
        return value(patched, decode)
    }

    private static func tree(_ box: ValueBox) -> JSONValue? {
        box.encoded().flatMap { try? JSONValue(written: Array($0)) }
    }

    private static func value(
        _ tree: JSONValue,
        _ decode: (Data) throws -> ValueBox
    ) -> ValueBox? {
        try? decode(Data(tree.encoded))
    }

    private static func patch(
        _ fetched: JSONValue?,
        _ before: JSONValue?,
        _ after: JSONValue?
    ) -> JSONValue? {
        guard before != after else { return fetched }
        switch (fetched, before, after) {
        case (.object(var fetched), .object(let before), .object(let after)):
            for name in Set(before.keys).union(after.keys) {
                fetched[name] = patch(fetched[name], before[name], after[name])
            }
            return .object(fetched)
        case (.array(let fetched), .array(let before), .array(let after)):
            guard let old = rows(before), let new = rows(after), rows(fetched) != nil
            else { return .array(before) }
            return .array(
                fetched.compactMap { row in
                    guard let id = row["id"], let changed = new[id] else { return row }
                    // A row that the effects insert is inserted by them.
                    return old[id].map { patch(row, $0, changed) ?? $0 }
                }
            )
        default:
            return before
        }
    }

    /// Returns the rows of a list by their ids; `nil` if an id is missing or repeated.
    private static func rows(_ array: [JSONValue]) -> [JSONValue: JSONValue]? {
        var rows: [JSONValue: JSONValue] = [:]
        for row in array {
            guard let id = row["id"], rows.updateValue(row, forKey: id) == nil else { return nil }
        }
        return rows
    }
}

extension Effect {
    /// Returns whether a value that was requested at that count of the cache contains it.
    fileprivate func isContained(in value: ValueBox, askedAt number: UInt64) -> Bool {
        if let list { return acknowledgedAt != nil && list.isMerged(value, sequence) }
        if let isReached { return isReached(value) }
        return acknowledgedAt.map { $0 < number } ?? false
    }

    /// Whether it is unknown if a value contains it.
    ///
    /// Not for lists: their source knows it for each row.
    fileprivate var mayBeContained: Bool { list == nil && isReached == nil && sending != nil }
}
