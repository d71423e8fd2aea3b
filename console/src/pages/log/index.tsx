/** The log of a job or of one trial; a tab of the job's page. */

export interface LogViewProps {
  project: string;
  job: string;
}

export default function LogView({ project, job }: LogViewProps) {
  return <p>The log of {project}/{job}.</p>;
}
