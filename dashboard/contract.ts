/**
 * What the queue is about to have, until it has.
 *
 * @module
 */
import type { FailedJob, Moved } from "../mod.ts";

export interface WorkerInfo {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly startedAt: number;
  readonly seenAt: number;
  readonly queues: readonly string[] | null;
  readonly concurrency: number;
  readonly names: readonly string[];
  readonly processed: number;
  readonly busy: number;
  readonly running: readonly {
    readonly id: string;
    readonly name: string;
    readonly queue: string;
    readonly attempt: number;
    readonly since: number;
  }[];
  readonly version: string;
}

export interface FailedFilter {
  readonly name?: string;
  readonly queue?: string;
  readonly since?: number;
  readonly before?: number;
  readonly text?: string;
}

export interface Coming {
  workers(): Promise<WorkerInfo[]>;
  find(id: string): Promise<object | null>;
  failed(page: FailedFilter & { limit?: number; after?: string; reverse?: boolean }): Promise<FailedJob[]>;
  countFailed(filter: FailedFilter): Promise<number>;
  retry(which: readonly string[] | FailedFilter, options?: { limit?: number }): Promise<Moved[]>;
  forget(which: readonly string[] | FailedFilter, options?: { limit?: number }): Promise<Moved[]>;
}
