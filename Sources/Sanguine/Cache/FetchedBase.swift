import Foundation
import SanguineModel

/// What is known of a base besides its value.
struct BaseNotes: Sendable {
    /// The operations that the base may contain: their effects are not applied to it.
    var doubts = Doubts()
    /// Whether a part of it is older than the rest.
    var isPatched = false
}

/// What a fetched value makes of a base whose query has effects.
///
/// An answer does not say which operations it contains. By the times of asking and of sending:
///
/// 1. An operation that was done before the value was asked for is contained: its effect is over.
/// 2. One that has reached nobody is not contained: its effect is applied.
/// 3. One that is under way, or whose answer was lost, may be contained. If its effect changes
///    nothing the second time, because it sets or looks first, it is applied. If it adds, what it
///    changes keeps the value from before it, and everything else is the answer's. If no value from
///    before it is known, the answer is shown as it is, and the effect waits: see
///    ``BaseNotes/doubts``.
///
/// So an effect is never shown twice, one that was shown stays, and what others changed is shown.
///
/// Pure, but for the app's code in the effects: built under no lock.
struct FetchedBase: Sendable {
    /// The value without the effects that remain.
    var base: ValueBox
    /// The operations that the base contains: their effects are over.
    var settled: [Int64] = []
    /// The effects that are still to be applied.
    var remaining: [Effect] = []
    /// What else is known of the base.
    var notes = BaseNotes()

    /// What is shown.
    var shown: ValueBox {
        EffectTable.List(effects: remaining).applied(to: base, doubts: notes.doubts)
    }

    /// A value of a query without effects.
    init(_ value: ValueBox) { base = value }

    /// Judges a value that was asked for.
    ///
    /// `nil` if what the effects change cannot be told apart: then the held base has to stay.
    ///
    /// - Parameters:
    ///   - value: What was fetched, or what an operation's answer brought.
    ///   - number: The cache's count when it was asked for.
    ///   - own: The operation whose answer it is, if it is one.
    ///   - effects: The effects on the query's values, in their order.
    ///   - held: The base that is held, and what it may contain.
    ///   - decode: Makes a value of JSON.
    init?(
        _ value: ValueBox,
        askedAt number: UInt64,
        of own: Int64? = nil,
        effects: [Effect],
        held: (base: ValueBox, notes: BaseNotes)?,
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
        let old = held?.notes.doubts ?? Doubts()
        let known = held == nil ? [] : adding.filter { !old.contains($0) }
        notes.doubts = Doubts(held == nil ? adding : adding.filter(old.contains))
        guard !known.isEmpty, let held else { return }
        let before = EffectTable.List(effects: over).applied(to: held.base, doubts: old)
        let after = EffectTable.List(effects: known).applied(to: before)
        guard let patched = Self.patch(value, before, after, decode) else { return nil }
        base = patched
        notes.isPatched = true
    }

    /// The effects that would be shown twice if the value contained them, which it may.
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

    /// The fetched value with what differs between two others as it is in the first of them.
    ///
    /// By their JSON; `nil` if that does not stand for the value.
    static func patch(
        _ fetched: ValueBox,
        _ before: ValueBox,
        _ after: ValueBox,
        _ decode: (Data) throws -> ValueBox
    ) -> ValueBox? {
        guard let tree = tree(fetched), let first = Self.tree(before),
            let second = Self.tree(after),
            // What JSON cannot carry, a large unsigned number say, must not be changed by it.
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

    /// The rows of a list by their ids; `nil` if they have none.
    private static func rows(_ array: [JSONValue]) -> [JSONValue: JSONValue]? {
        var rows: [JSONValue: JSONValue] = [:]
        for row in array {
            guard let id = row["id"], rows.updateValue(row, forKey: id) == nil else { return nil }
        }
        return rows
    }
}

extension Effect {
    /// Whether a value that was asked for at that count of the cache contains it.
    fileprivate func isContained(in value: ValueBox, askedAt number: UInt64) -> Bool {
        if let list { return acknowledgedAt != nil && list.isFolded(value, sequence) }
        if let isReached { return isReached(value) }
        return acknowledgedAt.map { $0 < number } ?? false
    }

    /// Whether nobody knows if a value contains it.
    ///
    /// A list's source has found it out for each row.
    fileprivate var mayBeContained: Bool { list == nil && isReached == nil && sending != nil }
}
